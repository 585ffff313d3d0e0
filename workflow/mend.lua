-- mend.lua: find instances whose task, or whose activities, somebody deleted from the queues, and put that right.
-- KEYS[1] index of active executions
-- ARGV[2...] id and execution of each that is to be looked at
-- Reply: for each of these {id, execution, "", queue}: its task is queued again | {id, execution, ref, queue, entry}: what the activity was to do is gone, and left to gone.lua
local no = denied()
if no then return no end
local out = {}
local function there(kind, queue, entry)
  local stream = B .. kind .. ':' .. queue
  if string.sub(entry, 1, 1) == 'h' then stream, entry = B .. 'held:' .. kind .. ':' .. queue, string.sub(entry, 2) end
  if call('EXISTS', stream) == 0 then return false end
  if #call('XRANGE', stream, entry, entry) == 1 then return true end
  -- A worker that has it may end it all the same. One that is dead has it no more when another took over.
  local ok, pending = pcall(call, 'XPENDING', stream, GROUP, entry, entry, 1)
  return ok and #pending == 1
end
for i = 2, #ARGV, 2 do
  local id, x = ARGV[i], ARGV[i + 1]
  local run = B .. 'run:' .. id
  local all = call('HGETALL', run)
  local r = {}
  for f = 1, #all, 2 do r[all[f]] = all[f + 1] end
  if r.x == x then
    if r.e ~= '' and not there('tasks', r.q, r.e) then
      call('HSET', run, 'e', '')
      r.e = ''
      out[#out + 1] = {id, x, '', r.q}
    end
    if r.e == '' and call('EXISTS', B .. 'in:' .. id) == 1 then wake(id) end
    for field, value in pairs(r) do
      if string.sub(field, 1, 2) == 'a:' then
        local entry, queue = string.match(value, '^([^ ]*) (.*)$')
        if not there('activities', queue, entry) then out[#out + 1] = {id, x, string.sub(field, 3), queue, entry} end
      end
    end
  end
end
return out
