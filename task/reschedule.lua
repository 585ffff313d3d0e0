-- reschedule.lua: write one schedule entry as an operator wants it, if it is still what the caller read.
-- KEYS[1] entries
-- ARGV[1] name   ARGV[2] SHA-1 (hex) of what the caller read, "" = there was none   ARGV[3] new entry, "" = remove it   ARGV[4] channel of those who schedule
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
