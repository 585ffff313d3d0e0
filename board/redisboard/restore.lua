-- restore.lua: post again what was put aside, byte for byte.
-- KEYS[1] listings (hash)   KEYS[2] trash (hash)   KEYS[3] last_modified
-- ARGV[1] field   ARGV[2] channel of events
-- Reply: 'ok' | 'not_found' | 'exists'
local record = redis.call('HGET', KEYS[2], ARGV[1])
if not record then return 'not_found' end
if redis.call('HSETNX', KEYS[1], ARGV[1], record) == 0 then return 'exists' end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[3])
redis.call('PUBLISH', ARGV[2], 'posted')
return 'ok'
