-- worker_renew.lua: let a worker's token live on, if it is still there.
-- KEYS[1] heartbeat of the worker
-- ARGV[1] its token   ARGV[2] time to live from now, ms
-- Reply: {"ok"} | {"lost"}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'ok'}
