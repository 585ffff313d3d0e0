-- worker_acquire.lua: put a new token into a worker's heartbeat.
-- KEYS[1] heartbeat of the worker
-- ARGV[1] new token   ARGV[2] time to live, ms   ARGV[3] "1" = whatever is there, "0" = not if another process lives under this id
-- ARGV[4] what marks a take-over, the beginning of its token   ARGV[5] the worker's token before, "" = none
-- Reply: {"ok"} | {"taken", the other's token}
local held = redis.call('GET', KEYS[1])
if held and ARGV[3] ~= '1' and held ~= ARGV[5] and string.sub(held, 1, #ARGV[4]) ~= ARGV[4] then return {'taken', held} end
redis.call('DEL', KEYS[1]) -- a full server refuses SET as the first write of a script, and without a worker it stays full
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'ok'}
