-- resume.lua: let a task type run again: a page of its parked tasks is due now.
-- KEYS[1] control hash, and channel   KEYS[2] parked zset   KEYS[3] delayed zset
-- ARGV[1] field of the control hash that pauses the type, "" = leave it   ARGV[2] largest page
-- Reply: how many were moved; less than a page: there are no more
for i, want in ipairs({'hash', 'zset', 'zset'}) do
  local have = redis.call('TYPE', KEYS[i]).ok
  if have ~= 'none' and have ~= want then return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. have) end
end
if ARGV[1] ~= '' and redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then redis.call('PUBLISH', KEYS[1], '') end
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local page = redis.call('ZRANGE', KEYS[2], 0, ARGV[2] - 1, 'WITHSCORES')
for i = 1, #page, 2 do
  -- Due since it was parked, so that they are taken in that order, to the millisecond.
  redis.call('ZADD', KEYS[3], string.format('%.3f', math.min(now, tonumber(page[i + 1]) / 1000)), page[i])
  redis.call('ZREM', KEYS[2], page[i])
end
if #page > 0 then redis.call('PUBLISH', KEYS[3], string.format('%.3f', now)) end
return #page / 2
