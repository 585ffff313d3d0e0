-- requeue.lua: give a dead task another life, once.
-- KEYS[1] dead letters   KEYS[2] index of the dead letters   KEYS[3] stream   KEYS[4] result of its last life   KEYS[5] cancel marks
-- KEYS[6] what is known under its id   KEYS[7] unique key, = KEYS[3] if it has none   KEYS[8] what is known of a letter that is kept elsewhere, = KEYS[3] if it is here
-- ARGV[1] task id   ARGV[2] SHA-1 (hex) of the letter that was read, not looked at if it is kept elsewhere   ARGV[3] message
-- ARGV[4] how long the unique key is held at most, ms   ARGV[5] how long to remember that a letter kept elsewhere was requeued, ms
-- Reply: {"ok", entry id} | {"gone"}: somebody else requeued or deleted it | {"changed"}: it died again, read again
--   | {"duplicate", id of the task that holds the unique key}
local elsewhere, unique = KEYS[8] ~= KEYS[3], KEYS[7] ~= KEYS[3]
local wants = {'hash', 'zset', 'stream', 'string', 'zset', 'hash'}
for i, want in ipairs(wants) do
  local have = redis.call('TYPE', KEYS[i]).ok
  if have ~= 'none' and have ~= want then return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. have) end
end
if elsewhere then
  local entry = redis.call('HGET', KEYS[8], 'entry')
  if entry then return {'ok', entry} end
else
  local letter = redis.call('HGET', KEYS[1], ARGV[1])
  if not letter then return {'gone'} end
  if redis.sha1hex(letter) ~= ARGV[2] then return {'changed'} end
end
if unique then
  local holder = redis.call('GET', KEYS[7])
  if holder and holder ~= ARGV[1] then return {'duplicate', holder} end
end
-- Nothing above this line writes. What is added comes before what is removed.
local entry = redis.call('XADD', KEYS[3], '*', 'data', ARGV[3])
if elsewhere then
  redis.call('HSET', KEYS[8], 'id', ARGV[1], 'entry', entry, 'due', '')
  redis.call('PEXPIRE', KEYS[8], ARGV[5])
else
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
redis.call('DEL', KEYS[4]) -- of the life before: who waits is to get the end of this one
redis.call('ZREM', KEYS[5], ARGV[1])
if unique then redis.call('SET', KEYS[7], ARGV[1], 'PX', ARGV[4]) end
if redis.call('EXISTS', KEYS[6]) == 1 then redis.call('HSET', KEYS[6], 'entry', entry, 'due', '') end
return {'ok', entry}
