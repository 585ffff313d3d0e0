-- many.lua: the same read of many keys. Writes nothing.
-- KEYS     the keys
-- ARGV     the name of the command, and what follows its key
-- Reply    the replies in the order of KEYS
local name, replies = table.remove(ARGV, 1), {}
for i, key in ipairs(KEYS) do replies[i] = redis.call(name, key, unpack(ARGV)) end
return replies
