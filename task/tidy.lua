-- tidy.lua: delete the records of workers whose heartbeat is gone.
-- KEYS[1] registry   KEYS[2...] heartbeats
-- ARGV    ids of the workers, in the order of their heartbeats
-- Reply: how many were deleted
local n = 0
for i, id in ipairs(ARGV) do
  if redis.call('EXISTS', KEYS[1 + i]) == 0 then n = n + redis.call('HDEL', KEYS[1], id) end
end
return n
