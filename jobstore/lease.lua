-- lease.lua: take, keep or give back the lease of a role.
-- KEYS[1]  lease
-- ARGV[1]  "take", "keep" or "give"   ARGV[2]  token of the caller   ARGV[3]  milliseconds until it expires ("give": unused)
-- Reply    1 done | 0 it is another holder's, or ("keep", "give") has none
-- A repeated "take" with one token is done once: its first reply may have been lost.
local holder = redis.call('GET', KEYS[1])
if ARGV[1] == 'take' and not holder then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
if holder ~= ARGV[2] then
  return 0
end
if ARGV[1] == 'give' then
  redis.call('DEL', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
