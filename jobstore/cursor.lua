-- cursor.lua: remember how far the change stream is published.
-- KEYS[1]  lease of the publisher   KEYS[2]  publisher:stream-cursors
-- ARGV[1]  token of the lease       ARGV[2]  id of the last entry that is published
-- Reply    1 written | 0 the lease is somebody else's: nothing was written
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], '_global', ARGV[2])
return 1
