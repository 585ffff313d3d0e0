-- purge.lua: delete what was put aside, and the time of its last change, which TaskFlow leaves behind.
-- KEYS[1] listings (hash)   KEYS[2] trash (hash)   KEYS[3] last_modified
-- ARGV[1] field
-- Reply: 'ok' | 'not_found'
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 then return 'not_found' end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then redis.call('DEL', KEYS[3]) end
return 'ok'
