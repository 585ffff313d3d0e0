-- ack.lua: settle a batch of entries, if the worker that handled them is still itself.
-- KEYS[1] heartbeat of the worker   KEYS[2] stream
-- ARGV[1] token under which they were delivered   ARGV[2] group   ARGV[3...] ids, 256 at most
-- Reply: {"ok"} (also if they are settled already) | {"lost"}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
redis.call('XACK', KEYS[2], ARGV[2], unpack(ARGV, 3))
redis.call('XDEL', KEYS[2], unpack(ARGV, 3))
return {'ok'}
