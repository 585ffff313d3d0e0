-- denied.lua: stands before each script that calls it.
-- denied is the error of a user who may not run a command on a key (or a channel), nil if he may. A name of two words is given as two: 'XGROUP', 'DELCONSUMER', key.
-- It runs nothing. The server has asked for the right to all of KEYS before the script began, so one key for each command is enough.
-- A server without this function (before Redis 7.0, the embedded store) is not asked.
local allows = redis.acl_check_cmd
local function denied(command, ...)
  if not allows or allows(command, ...) then return nil end
  return redis.error_reply('NOPERM this user may not run ' .. table.concat({command, ...}, ' ') .. ', nothing was done')
end
