-- swap.lua: write what an operator wants, a schedule entry or the configuration, if what is stored is still what the caller read.
-- KEYS[1] hash
-- ARGV[1] field   ARGV[2] SHA-1 (hex) of what the caller read, "" = there was none   ARGV[3] new value, "" = delete it   ARGV[4] channel of those who follow it
-- Reply: 1 done | 0 it has changed: read and decide again
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if (stored and redis.sha1hex(stored) or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
redis.call('PUBLISH', ARGV[4], ARGV[1])
return 1
