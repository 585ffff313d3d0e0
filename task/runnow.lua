-- runnow.lua: make a delayed task due.
-- KEYS[1] delayed zset
-- ARGV[1] message, as it is stored
-- Reply: {"ok"} | {"gone"}: it is not delayed any more, nothing done
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return {'gone'} end
local t = redis.call('TIME')
local now = string.format('%.3f', t[1] + t[2] / 1000000)
redis.call('ZADD', KEYS[1], 'LT', now, ARGV[1])
redis.call('PUBLISH', KEYS[1], now)
return {'ok'}
