-- fire.lua: give the events of timers that are due to their instances.
-- KEYS[1] timers   ARGV[2] most timers to fire   ARGV[3] ms after which one is tried again that met a key of another type
-- Reply: {fired or tried, ms until the next is due, -1 = there is none, key of another type...}
if call('EXISTS', KEYS[1]) == 0 then return {0, -1} end
local now = tick()
local due = call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[2])
local odd = {}
for _, member in ipairs(due) do
  local ref, x, id = string.match(member, '^([^:]*):([^:]*):(.*)$')
  local bad = ref and amiss(id)
  if bad then
    odd[#odd + 1] = bad
    call('ZADD', KEYS[1], now + tonumber(ARGV[3]), member)
  elseif ref then
    local run = B .. 'run:' .. id
    local r = call('HMGET', run, 'x', 't:' .. ref)
    if r[1] == x and r[2] then
      give(id, x, r[2], '0')
      call('HDEL', run, 't:' .. ref)
    end
  end
  if not bad then call('ZREM', KEYS[1], member) end
end
local next = call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
return {#due, next and math.max(0, tonumber(next) - now) or -1, unpack(odd)}
