-- fire.lua: write one schedule entry, and submit the tasks of its slots in the same step, if the caller still leads and the entry is still what it decided on.
-- KEYS[1] scheduler lock   KEYS[2] term   KEYS[3] entries   KEYS[4] stream, = KEYS[3] if nothing is submitted
-- KEYS[5] key that keeps others out while a task is there, = KEYS[3] if there is none
-- ARGV[1] token   ARGV[2] term   ARGV[3] name of the entry   ARGV[4] SHA-1 (hex) of what the caller read, "" = there was none
-- ARGV[5] new entry, "" = remove it   ARGV[6] new entry if the key keeps it out   ARGV[7] how long the key is held at most, ms
-- ARGV[8] entry in the stream of the task that holds the key, "" = not known: while it is there, a slot that is skipped prolongs the key
-- ARGV[9] id of the first task   ARGV[10...] messages
-- Reply: {"ok", entry in the stream of the first, or ""} | {"skipped", id of the task that holds the key} | {"conflict"}: read and decide again
--   | {"lost"}: another one leads
-- Slots are compared by the whole entry: who read an older one, in which a slot was not fired yet, meets a conflict. So a slot fires once.
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then return {'lost'} end
local stored = redis.call('HGET', KEYS[3], ARGV[3])
if (stored and redis.sha1hex(stored) or '') ~= ARGV[4] then return {'conflict'} end
local keyed, entry = KEYS[5] ~= KEYS[3], ''
if #ARGV >= 10 then
  local t = redis.call('TYPE', KEYS[4]).ok
  if t ~= 'none' and t ~= 'stream' then return redis.error_reply('WRONGTYPE ' .. KEYS[4] .. ' is a ' .. t) end
  local holder = keyed and redis.call('GET', KEYS[5])
  if holder and holder ~= ARGV[9] then
    redis.call('HSET', KEYS[3], ARGV[3], ARGV[6])
    if ARGV[8] ~= '' and #redis.call('XRANGE', KEYS[4], ARGV[8], ARGV[8]) > 0 then redis.call('PEXPIRE', KEYS[5], ARGV[7]) end
    return {'skipped', holder}
  end
  for i = 10, #ARGV do
    local id = redis.call('XADD', KEYS[4], '*', 'data', ARGV[i])
    if i == 10 then entry = id end
  end
  if keyed then redis.call('SET', KEYS[5], ARGV[9], 'PX', ARGV[7]) end
end
if ARGV[5] == '' then
  redis.call('HDEL', KEYS[3], ARGV[3])
else
  redis.call('HSET', KEYS[3], ARGV[3], ARGV[5])
end
return {'ok', entry}
