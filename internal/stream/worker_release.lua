-- worker_release.lua: end a worker's heartbeat, so that others take over at once.
-- KEYS[1] heartbeat of the worker
-- ARGV[1] its token
-- Reply: {"ok"} | {"lost"}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
redis.call('DEL', KEYS[1])
return {'ok'}
