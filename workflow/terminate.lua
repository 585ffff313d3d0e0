-- terminate.lua: end an execution from outside.
-- KEYS[1] run:{id}   KEYS[2] document   KEYS[3] history
-- ARGV[2] id   ARGV[3] execution   ARGV[4] SHA-1 (hex) of the document that was read   ARGV[5] document   ARGV[6] event, last of the history
-- ARGV[7] ms to keep it, 0 = for ever   ARGV[8] gate   ARGV[9] its shard   ARGV[10] this shard, as others call it
-- ARGV[11] shard of the parent   ARGV[12] parent, "" = none   ARGV[13] its execution   ARGV[14] event for it
-- Reply: {"ok"} | {"none"}: it is not active | {"conflict"}: it has changed since
local r = call('HMGET', KEYS[1], 'x', 'q', 'e')
if r[1] ~= ARGV[3] then return {'none'} end
if redis.sha1hex(call('GET', KEYS[2]) or '') ~= ARGV[4] then return {'conflict'} end
call('LLEN', KEYS[3])
local now = clock()
local expires = ARGV[7] ~= '0' and now + tonumber(ARGV[7])
if expires then call('SET', KEYS[2], ARGV[5], 'PXAT', expires) else call('SET', KEYS[2], ARGV[5]) end
call('RPUSH', KEYS[3], ARGV[6])
if r[3] ~= '' then pull('tasks', r[2], r[3]) end
finish(ARGV[2], ARGV[3], ARGV[5], ARGV[6], 'finished', 'terminated', now, expires, false, ARGV[8])
if ARGV[8] ~= '' then send(ARGV[9], 'release', ARGV[8], ARGV[10], ARGV[2], ARGV[3]) end
if ARGV[12] ~= '' then send(ARGV[11], 'event', ARGV[12], ARGV[13], ARGV[14], '0') end
return {'ok'}
