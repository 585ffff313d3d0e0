-- tick.lua: the clock of timers and schedules.

-- again has schedules looked at now whose next slot was told by a clock that was ahead: some may be due long before. Those without a slot have the last score of all (never, in Go).
local function again(now)
  local schedules = B .. 'schedules'
  if call('TYPE', schedules).ok ~= 'zset' then return end
  for _, name in ipairs(call('ZRANGE', schedules, '(' .. now, '(253402300799000', 'BYSCORE')) do call('ZADD', schedules, now, name) end
end

-- tick is clock for those who set or fire timers, or start what is scheduled. If it was set back since they last looked, timers are brought forward by as much, so that nobody waits for it to come
-- there again. One that is ahead makes timers early: it cannot be told from workers that were away.
local function tick()
  local now, key, timers = clock(), B .. 'clock', B .. 'timers'
  local before = tonumber(redis.pcall('GET', key) or '0') or 0 -- what somebody else put there is written over
  if now < before - 1000 then
    local all = call('ZRANGE', timers, 0, -1, 'WITHSCORES')
    for i = 1, #all, 2 do call('ZADD', timers, tonumber(all[i + 1]) - (before - now), all[i]) end
    again(now)
  end
  if math.abs(now - before) >= 1000 then pcall(call, 'SET', key, now) end
  return now
end
