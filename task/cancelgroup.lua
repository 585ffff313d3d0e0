-- cancelgroup.lua: have all children of a group cancelled that have not ended.
-- KEYS[1] state   KEYS[2] remaining   KEYS[3] cancel marks
-- ARGV[1] mark that cancels the children   ARGV[2] channel of the control
-- Reply: {"ok"} | {"ended"}: there are none | {"none"}: no such group
-- Marks of more than a day ago are dropped.
local left = redis.call('GET', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 0 or not left then return {'none'} end
if tonumber(left) <= 0 then return {'ended'} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now - 86400000))
redis.call('HSET', KEYS[1], 'stopped', 1)
redis.call('ZADD', KEYS[3], string.format('%.0f', now), ARGV[1])
redis.call('PUBLISH', ARGV[2], ARGV[1])
return {'ok'}
