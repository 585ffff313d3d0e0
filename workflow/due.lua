-- due.lua: which schedules are due, and what time it is; notices a clock that was set back.
-- KEYS[1] schedules   ARGV[2] most schedules to name, 0 = only the time   ARGV[3] the time that the caller was told last, in ms, 0 = none
-- Reply: {seconds, microseconds, ms until the first that is not named is due, -1 = there is none, names of those that are due...}, all of them strings
local t, most = call('TIME'), tonumber(ARGV[2])
if most > 0 and call('EXISTS', KEYS[1]) == 0 then return {t[1], t[2], '-1'} end
local now = tick()
if now < tonumber(ARGV[3]) - 1000 then again(now) end
local reply = {t[1], t[2], '-1'}
if most == 0 then return reply end
local first = call('ZRANGE', KEYS[1], 0, most, 'WITHSCORES')
for i = 1, #first, 2 do
  local wait = tonumber(first[i + 1]) - now
  if wait > 0 or i > 2 * most then
    reply[3] = string.format('%.0f', math.max(wait, 0))
    break
  end
  reply[#reply + 1] = first[i]
end
return reply
