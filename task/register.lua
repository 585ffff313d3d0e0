-- register.lua: write the record of a worker, and until when its sizes are served.
-- KEYS[1] registry   KEYS[2] pools zset
-- ARGV[1] id of the worker   ARGV[2] record   ARGV[3] how long it serves its sizes unless it says so again, ms   ARGV[4...] its sizes
-- Reply: how many workers are registered
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local t = redis.call('TIME')
local till = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[3])
for i = 4, #ARGV do redis.call('ZADD', KEYS[2], 'GT', till, ARGV[i]) end
return redis.call('HLEN', KEYS[1])
