-- wake.lua: make blocked tasks due whose turn it is.
-- KEYS[1] delayed zset   KEYS[2] blocked hash
-- ARGV    task ids in the order of their turns; one that is not blocked, or no task, is passed over
-- Reply: how many were woken
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local woken = 0
for i, id in ipairs(ARGV) do
  local member = redis.call('HGET', KEYS[2], id)
  if member then
    local due = redis.call('ZSCORE', KEYS[1], member)
    if due and tonumber(due) > now then
      -- In the past by a millisecond for each behind it, so that they are taken in this order.
      redis.call('ZADD', KEYS[1], string.format('%.3f', now - (#ARGV - i + 1) / 1000), member)
      woken = woken + 1
    end
    redis.call('HDEL', KEYS[2], id)
  end
end
if woken > 0 then redis.call('PUBLISH', KEYS[1], string.format('%.3f', now - #ARGV / 1000)) end
return woken
