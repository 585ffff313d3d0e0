-- sent.lua: delete the status events that the broker has, if their sender still has the role.
-- KEYS[1]  lease of the sender   KEYS[2]  outbox
-- ARGV[1]  token of the lease, then ids of entries, 512 at most
-- Reply    1 (also if they are deleted already) | 0 the lease is another process', nothing was written
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('XDEL', KEYS[2], unpack(ARGV, 2))
return 1
