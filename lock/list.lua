-- list.lua: look at locks, changing nothing.
-- KEYS, ARGV  as common.lua says
-- Reply  per lock what info.lua says
local reply = {}
for _, s in ipairs(locks(4)) do reply[#reply + 1] = info(s) end
return reply
