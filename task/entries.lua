-- entries.lua: read entries of a stream by their ids. It writes nothing.
-- KEYS[1] stream   ARGV ids
-- Reply  the message of each entry, "" = it is gone
local reply = {}
for i, id in ipairs(ARGV) do
  local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
  reply[i] = entry and entry[2][2] or ''
end
return reply
