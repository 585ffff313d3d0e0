-- worker_shorten.lua: let a heartbeat end after its time to live, should it last for longer.
-- KEYS[1] heartbeat of another worker
-- ARGV[1] time to live of the caller's own, ms
-- Reply: {"ok"}: it does not, or is not there | {"shortened"}
local held = redis.call('GET', KEYS[1])
return {held and shorten(KEYS[1], held, ARGV[1]) and 'shortened' or 'ok'}
