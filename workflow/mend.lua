-- mend.lua: find instances whose task, or whose activities, somebody deleted from the queues, and put that right.
-- KEYS[1] index of active executions
-- ARGV[2] fields of instances to look at, about: then it ends   ARGV[3] cursor into the first instance, 0 = its beginning
-- ARGV[4...] id and execution of each that is to be looked at
-- Reply: {how many were looked at to their end, cursor into the next one, finding...}; a finding is
-- {id, execution, "", queue}: its task is queued again | {id, execution, ref, queue, entry}: what the activity was to do is gone, and left to gone.lua
-- | {id, execution, key}: nothing was done for it, the key is of another type
local out = {}
local function there(kind, queue, entry)
  local stream = B .. kind .. ':' .. queue
  if string.sub(entry, 1, 1) == 'h' then stream, entry = B .. 'held:' .. kind .. ':' .. queue, string.sub(entry, 2) end
  if sound[stream] == nil then sound[stream] = foreign(stream, 'XLEN', stream) end
  if sound[stream] then return true, stream end
  if #call('XRANGE', stream, entry, entry) == 1 then return true end
  -- A worker that has it may end it all the same. One that is dead has it no more when another took over.
  local ok, pending = pcall(call, 'XPENDING', stream, GROUP, entry, entry, 1)
  return ok and #pending == 1
end

-- task queues the task of an instance again if it is gone, or was forgotten.
local function task(id, x)
  local run = B .. 'run:' .. id
  local r = call('HMGET', run, 'e', 'q')
  if r[1] ~= '' and not there('tasks', r[2], r[1]) then
    call('HSET', run, 'e', '')
    r[1] = ''
    out[#out + 1] = {id, x, '', r[2]}
  end
  if r[1] == '' and call('EXISTS', B .. 'in:' .. id) == 1 then wake(id) end
end

local left, cursor, done = tonumber(ARGV[2]), ARGV[3], 0
for i = 4, #ARGV, 2 do
  local id, x = ARGV[i], ARGV[i + 1]
  local run = B .. 'run:' .. id
  local bad, told = amiss(id), {}
  if bad then out[#out + 1] = {id, x, bad} end
  if bad or call('HGET', run, 'x') ~= x then cursor = '0' else
    if cursor == '0' then task(id, x) end
    repeat
      local page = call('HSCAN', run, cursor, 'COUNT', math.max(left, 10))
      cursor, left = page[1], left - #page[2] / 2
      for f = 1, #page[2], 2 do
        local field = page[2][f]
        if string.sub(field, 1, 2) == 'a:' then
          local entry, queue = string.match(page[2][f + 1], '^([^ ]*) (.*)$')
          local is, odd = there('activities', queue, entry)
          if odd and not told[odd] then
            told[odd] = true
            out[#out + 1] = {id, x, odd}
          elseif not is then
            out[#out + 1] = {id, x, string.sub(field, 3), queue, entry}
          end
        end
      end
    until cursor == '0' or left <= 0
  end
  left = left - 1
  if cursor == '0' then done = done + 1 end
  if left <= 0 then break end
end
return {done, cursor, unpack(out)}
