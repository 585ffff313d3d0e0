-- terminate.lua: end an execution from outside.
-- KEYS[1] run:{id}   KEYS[2] document   KEYS[3] history
-- ARGV[2] id   ARGV[3] execution   ARGV[4] SHA-1 (hex) of the document that was read   ARGV[5] document   ARGV[6] event, last of the history
-- ARGV[7] ended, Unix ms   ARGV[8] ms to keep it, 0 = for ever   ARGV[9] gate   ARGV[10] its shard   ARGV[11] this shard, as others call it
-- ARGV[12] shard of the parent   ARGV[13] parent, "" = none   ARGV[14] its execution   ARGV[15] event for it
-- Reply: {"ok"} | {"none"}: it is not active | {"conflict"}: it has changed since
local no = denied()
if no then return no end
local r = call('HMGET', KEYS[1], 'x', 'q', 'e')
if r[1] ~= ARGV[3] then return {'none'} end
if redis.sha1hex(call('GET', KEYS[2]) or '') ~= ARGV[4] then return {'conflict'} end
call('LLEN', KEYS[3])
local expires = ARGV[8] ~= '0' and clock() + tonumber(ARGV[8])
if expires then call('SET', KEYS[2], ARGV[5], 'PXAT', expires) else call('SET', KEYS[2], ARGV[5]) end
call('RPUSH', KEYS[3], ARGV[6])
if r[3] ~= '' then pull('tasks', r[2], r[3]) end
finish(ARGV[2], ARGV[3], ARGV[5], ARGV[6], 'finished', 'terminated', tonumber(ARGV[7]), expires, false, ARGV[9])
if ARGV[9] ~= '' then send(ARGV[10], 'release', ARGV[9], ARGV[11], ARGV[2], ARGV[3]) end
if ARGV[13] ~= '' then send(ARGV[12], 'event', ARGV[13], ARGV[14], ARGV[15], '0') end
return {'ok'}
