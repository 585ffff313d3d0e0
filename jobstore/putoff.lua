-- putoff.lua: put off the timer of a job order, if no caller has set or taken it since it was handed out.
-- KEYS[1]  sfc:timers, zset: job order id -> installation time in milliseconds
-- ARGV[1]  job order id   ARGV[2]  its due time as due.lua set it when it handed it out   ARGV[3]  its new due time
-- Reply    1 | 0: it has another due time by now, or none
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1])) ~= tonumber(ARGV[2]) then return 0 end
-- Nothing above this line writes.
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
