-- requeue.lua: give a dead task another life, once for each death.
-- KEYS[1] dead letters   KEYS[2] index of the dead letters   KEYS[3] stream   KEYS[4] result of its last life   KEYS[5] cancel marks
-- KEYS[6] what is known under its id   KEYS[7] what is known of this death   KEYS[8] unique key, = KEYS[3] if it has none
-- ARGV[1] task id   ARGV[2] SHA-1 (hex) of the letter   ARGV[3] message   ARGV[4] how long the unique key is held at most, ms
-- ARGV[5] how long to remember this requeue, ms   ARGV[6] "1" = the letter is kept elsewhere, and need not be here
-- Reply: {"ok", entry id} | {"gone"}: somebody else requeued or deleted it | {"changed"}: it died again, read again
--   | {"duplicate", id of the task that holds the unique key}
local unique = KEYS[8] ~= KEYS[3]
for i, want in ipairs({'hash', 'zset', 'stream', 'string', 'zset', 'hash', 'hash'}) do
  local have = redis.call('TYPE', KEYS[i]).ok
  if have ~= 'none' and have ~= want then return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. have) end
end
local letter = redis.call('HGET', KEYS[1], ARGV[1])
local this = letter and redis.sha1hex(letter) == ARGV[2]
if ARGV[6] ~= '1' and not this then return {letter and 'changed' or 'gone'} end
local entry = redis.call('HGET', KEYS[7], 'entry')
if not entry then
  if unique then
    local holder = redis.call('GET', KEYS[8])
    if holder and holder ~= ARGV[1] then return {'duplicate', holder} end
  end
  -- Nothing above this line writes. What is added comes before what is removed.
  entry = redis.call('XADD', KEYS[3], '*', 'data', ARGV[3])
  redis.call('HSET', KEYS[7], 'id', ARGV[1], 'entry', entry, 'due', '')
  redis.call('PEXPIRE', KEYS[7], ARGV[5])
  redis.call('DEL', KEYS[4]) -- of the life before: who waits is to get the end of this one
  redis.call('ZREM', KEYS[5], ARGV[1])
  if unique then redis.call('SET', KEYS[8], ARGV[1], 'PX', ARGV[4]) end
  if redis.call('EXISTS', KEYS[6]) == 1 then redis.call('HSET', KEYS[6], 'entry', entry, 'due', '') end
end
if this then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
return {'ok', entry}
