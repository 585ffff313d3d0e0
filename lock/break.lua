-- break.lua: take a lock from whoever has it, for an operator. The fence goes up; who waits is called.
-- KEYS, ARGV  as common.lua says, for one lock
-- Reply  what info.lua says of the lock before
local s = locks(4)[1]
local before = info(s)
if before[1] == '0' then return before end
if s.bad then redis.call('DEL', s.bad[1]) end -- a key of another type: nothing here could do anything with it
redis.call('DEL', s.lock)
if s.fence then fence(s) end
if not s.bad then call(s) end
publish()
return before
