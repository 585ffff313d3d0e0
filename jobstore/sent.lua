-- sent.lua: delete the status events that the broker has, if their sender still has the role.
-- KEYS[1]  lease of the sender   KEYS[2]  outbox   KEYS[3]  outbox that older builds write to beside it
-- ARGV[1]  token of the lease    ARGV[2]  number of entries of KEYS[2]
-- then the ids of these entries, then those of entries of KEYS[3]; 512 in all at most
-- Reply    1 (also if they are deleted already) | 0 the lease is another process', nothing was written
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local last = 2 + tonumber(ARGV[2])
if last > 2 then redis.call('XDEL', KEYS[2], unpack(ARGV, 3, last)) end
if last < #ARGV then redis.call('XDEL', KEYS[3], unpack(ARGV, last + 1)) end
return 1
