-- stats.lua: how full streams are. It writes nothing.
-- KEYS streams   ARGV[1] group
-- Reply  for each stream its length, what XPENDING says of the group (empty = there is no group), and the id of its first entry ("" = none)
local reply = {}
for _, key in ipairs(KEYS) do
  local pending = redis.pcall('XPENDING', key, ARGV[1])
  if pending.err then
    if not string.find(pending.err, 'NOGROUP', 1, true) then return pending end
    pending = {}
  end
  local first = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
  reply[#reply + 1] = {redis.call('XLEN', key), pending, first and first[1] or ''}
end
return reply
