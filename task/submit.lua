-- submit.lua: submit one task that is delayed, known by a key, or unique.
-- KEYS[1] stream   KEYS[2] delayed zset   KEYS[3] what is known by its key, = KEYS[1] if there is none   KEYS[4] unique key, = KEYS[1] if there is none
-- ARGV[1] message   ARGV[2] task id   ARGV[3] when: "" = now, "+ms" = that long from now, "=seconds" since epoch
-- ARGV[4] how long the key is known, ms   ARGV[5] how long the unique key is held at most, ms   ARGV[6] queue   ARGV[7] name of the type
-- Reply: {"ok", entry id or "", due in seconds or ""} | {"known", id, entry id, due, queue, name of the type}: submitted before under this key
--   | {"duplicate", id of the task that holds the unique key}
local known, unique = KEYS[3] ~= KEYS[1], KEYS[4] ~= KEYS[1]
if known then
  local had = redis.call('HMGET', KEYS[3], 'id', 'entry', 'due', 'queue', 'name')
  if had[1] then return {'known', had[1], had[2], had[3], had[4] or '', had[5] or ''} end
end
if unique then
  local holder = redis.call('GET', KEYS[4])
  if holder and holder ~= ARGV[2] then return {'duplicate', holder} end
end
local when, entry, due = ARGV[3], '', ''
if when == '' then
  entry = redis.call('XADD', KEYS[1], '*', 'data', ARGV[1])
else
  local now = redis.call('TIME')
  local at = tonumber(string.sub(when, 2))
  if string.sub(when, 1, 1) == '+' then at = now[1] + now[2] / 1000000 + at / 1000 end
  due = string.format('%.3f', at)
  local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  redis.call('ZADD', KEYS[2], due, ARGV[1])
  if not first[2] or tonumber(first[2]) > at then redis.call('PUBLISH', KEYS[2], due) end
end
-- Nothing above wrote if it failed: XADD and ZADD are the first writes, and a key of another type refuses them.
if known then
  redis.call('HSET', KEYS[3], 'id', ARGV[2], 'entry', entry, 'due', due, 'queue', ARGV[6], 'name', ARGV[7])
  redis.call('PEXPIRE', KEYS[3], ARGV[4])
end
if unique then redis.call('SET', KEYS[4], ARGV[2], 'PX', ARGV[5]) end
return {'ok', entry, due}
