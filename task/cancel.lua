-- cancel.lua: end a task that has not begun, or tell the worker that holds it to.
-- KEYS[1] stream   KEYS[2] delayed zset   KEYS[3] blocked hash
-- KEYS[4] cancel marks   KEYS[5] counters   KEYS[6] awaited hash   KEYS[7] result
-- ARGV[1] task id   ARGV[2] entry id, "" = it is in KEYS[2]   ARGV[3] message, as it is stored   ARGV[4] group of consumers
-- ARGV[5] "1" = its end concerns others, a worker does that   ARGV[6] channel of the control   ARGV[7] for how long a mark counts, ms
-- ARGV[8], ARGV[9] counters   ARGV[10] time to live of the result, ms   ARGV[11] result, "" = none   ARGV[12] name before a channel of those who await
-- Reply: {"ended"} | {"told"}: it is marked, and its worker, or the next that takes it, ends it | {"gone"}: it is not there any more, nothing done
for i, want in ipairs({'stream', 'zset', 'hash', 'zset', 'hash', 'hash', 'string'}) do
  local have = redis.call('TYPE', KEYS[i]).ok
  if have ~= 'none' and have ~= want then return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. have) end
end
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local tell = ARGV[5] == '1'
if ARGV[2] ~= '' then
  if #redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2]) == 0 then return {'gone'} end
  local held = redis.pcall('XPENDING', KEYS[1], ARGV[4], ARGV[2], ARGV[2], 1)
  tell = tell or not held.err and #held > 0 -- without a group nobody holds anything
elseif not redis.call('ZSCORE', KEYS[2], ARGV[3]) then
  return {'gone'}
end
-- Nothing above this line writes.
if tell then
  redis.call('ZADD', KEYS[4], string.format('%.0f', now * 1000), ARGV[1])
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', string.format('(%.0f', now * 1000 - ARGV[7]))
  if ARGV[2] == '' then
    redis.call('ZADD', KEYS[2], string.format('%.3f', now), ARGV[3])
    redis.call('PUBLISH', KEYS[2], string.format('%.3f', now))
  end
  redis.call('PUBLISH', ARGV[6], ARGV[1])
  return {'told'}
end
if ARGV[2] ~= '' then
  redis.call('XDEL', KEYS[1], ARGV[2])
else
  redis.call('ZREM', KEYS[2], ARGV[3])
  if redis.call('HGET', KEYS[3], ARGV[1]) == ARGV[3] then redis.call('HDEL', KEYS[3], ARGV[1]) end
end
redis.call('HINCRBY', KEYS[5], ARGV[8], 1)
redis.call('HINCRBY', KEYS[5], ARGV[9], 1)
if ARGV[11] ~= '' then
  redis.call('SET', KEYS[7], ARGV[11], 'PX', ARGV[10])
  local who = redis.call('HGET', KEYS[6], ARGV[1])
  if who then
    redis.call('HDEL', KEYS[6], ARGV[1])
    for name in string.gmatch(who, '[^,]+') do redis.call('PUBLISH', ARGV[12] .. name, ARGV[1]) end
  end
end
return {'ended'}
