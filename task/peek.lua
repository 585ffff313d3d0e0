-- peek.lua: find messages that hold a text, at both ends of a sorted set and of streams. It writes nothing.
-- KEYS[1] sorted set   KEYS[2...] streams   ARGV[1] text   ARGV[2] how many messages are looked at, at each end   ARGV[3] how many finds are wanted
-- Reply  for each of at most that many finds: index of its key, score or id of the entry, message
local reply = {}
local function take(i, at, message)
  if #reply < tonumber(ARGV[3]) and string.find(message, ARGV[1], 1, true) then reply[#reply + 1] = {tostring(i), at, message} end
end
for _, read in ipairs({'ZRANGE', 'ZREVRANGE'}) do
  local members = redis.call(read, KEYS[1], 0, ARGV[2] - 1, 'WITHSCORES')
  for m = 1, #members, 2 do take(1, members[m + 1], members[m]) end
end
for i = 2, #KEYS do
  for _, entry in ipairs(redis.call('XREVRANGE', KEYS[i], '+', '-', 'COUNT', ARGV[2])) do take(i, entry[1], entry[2][2]) end
  for _, entry in ipairs(redis.call('XRANGE', KEYS[i], '-', '+', 'COUNT', ARGV[2])) do take(i, entry[1], entry[2][2]) end
end
return reply
