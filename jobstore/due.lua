-- due.lua: hand out the job orders whose timer is due, each to one caller.
-- KEYS[1]  sfc:timers, zset: job order id -> time in milliseconds since 1970, by the server's clock
-- ARGV[1]  how many at most   ARGV[2]  for how many milliseconds they are the caller's
-- Reply    {server time in milliseconds, job order id, ...}
-- A timer that was handed out is put off, not removed: the caller's commit sets the next one, and if the
-- caller dies before that, it is handed out again.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, id in ipairs(due) do
  redis.call('ZADD', KEYS[1], now + ARGV[2], id)
end
table.insert(due, 1, string.format('%.0f', now))
return due
