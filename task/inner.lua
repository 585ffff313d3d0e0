-- inner.lua: how far groups are. It writes nothing.
-- KEYS states of groups
-- Reply  for each its number of children, how many are done and how many failed, and what followed; all "" = there is none
local reply = {}
for i, key in ipairs(KEYS) do
  reply[i] = {}
  for f, value in ipairs(redis.call('HMGET', key, 'total', 'ok', 'failed', 'fired')) do reply[i][f] = value or '' end
end
return reply
