-- left.lua: how many tasks wait, run or are delayed. At one instant, for a task goes from one place to the other in one script.
-- KEYS[1] delayed zset   KEYS[2...] streams
-- Reply: their number
local n = redis.call('ZCARD', KEYS[1])
for i = 2, #KEYS do n = n + redis.call('XLEN', KEYS[i]) end
return n
