-- due.lua: carry installation time on, and hand out the job orders whose timer is due, each to one caller.
-- KEYS[1]  sfc:timers, zset: job order id -> installation time in milliseconds
-- KEYS[2]  sfc:clock, hash: offset, last, resumed (absent: 0, never, never)
-- ARGV[1]  how many at most   ARGV[2]  for how many milliseconds they are the caller's
-- ARGV[3]  "1": the caller takes answers; "0": it does not, and nothing is written or handed out
-- ARGV[4]  a break is longer than so many milliseconds
-- Reply    {server time, installation time, resumed (all in milliseconds), job order id, ...}
-- Installation time is the server's time less offset. It stands still while no process that takes answers calls, and does not follow the steps of the server's clock that are longer than a break: a
-- break and a step forward look the same, and neither may let a time-out run. A timer that was handed out is put off, not removed: the caller's commit sets the next one, and if the caller dies
-- before that, it is handed out again.
local clock = redis.call('HMGET', KEYS[2], 'offset', 'last', 'resumed')
local offset, last, resumed = tonumber(clock[1]) or 0, tonumber(clock[2]), tonumber(clock[3]) or 0
local t = redis.call('TIME')
local server = t[1] * 1000 + math.floor(t[2] / 1000)
local now = server - offset
local broke = last and (now < last or now - last > tonumber(ARGV[4]))
local function text(n) return string.format('%.0f', n) end
if ARGV[3] == '0' then return {text(server), text(broke and last or now), text(resumed)} end
-- Nothing above this line writes.
if broke then now, resumed = last, last end
if broke or not last or now ~= last then
  redis.call('HSET', KEYS[2], 'offset', text(server - now), 'last', text(now), 'resumed', text(resumed))
end
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, id in ipairs(due) do
  redis.call('ZADD', KEYS[1], now + ARGV[2], id)
end
return {text(server), text(now), text(resumed), unpack(due)}
