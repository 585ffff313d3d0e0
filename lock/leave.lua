-- leave.lua: give up a place in the lines of locks, and call who is next if it was its turn.
-- KEYS, ARGV  as common.lua says; its own: ARGV[4]  waiter
-- Reply  the waiters whose turn it is now
local all = locks(5)
for _, s in ipairs(all) do
  look(s)
end
for _, s in ipairs(all) do
  if not s.bad and leave(s, ARGV[4]) then call(s) end
end
publish()
return woken
