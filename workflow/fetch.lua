-- fetch.lua: what loads workflow tasks, and reads the next ones.

-- upcoming reads the events of an inbox that a task hands out, oldest first, MOST of them or about LARGE bytes at most, which a call carries in its time; one at least. One that outlives a
-- continuation is the first of its task, or waits for the next: what is before it may be why the execution continues as new, and then it is carried over.
local MOST, LARGE = 1000, 1048576
local handed = 0 -- bytes of events and documents, by this script
local function upcoming(inbox)
  local events, bytes, from, page = {}, 0, '-', 4
  while #events < MOST do
    local some = call('XRANGE', inbox, from, '+', 'COUNT', page)
    for _, e in ipairs(some) do
      local size = #e[2][2]
      if #events == MOST or #events > 0 and (e[2][3] or bytes + size > LARGE) then return events end
      events[#events + 1], bytes, handed = e, bytes + size, handed + size
    end
    if #some < page then break end
    from, page = '(' .. some[#some][1], math.min(2 * page, 64)
  end
  return events
end

-- begin loads what a workflow task needs: document, cursor, events; nil = there is nothing to be done under this entry, or the instance is paused, and the entry is settled.
local function begin(queue, entry, id)
  local run, inbox = B .. 'run:' .. id, B .. 'in:' .. id
  local r = call('HMGET', run, 'x', 'e', 'p')
  if r[1] and r[2] == entry then
    local doc = call('GET', B .. 'doc:' .. id .. ':' .. r[1])
    local events = upcoming(inbox)
    if doc and #events > 0 and not r[3] then
      local task = {doc, events[#events][1]}
      handed = handed + #doc
      for _, e in ipairs(events) do task[#task + 1] = e[2][2] end
      return task
    end
    call('HSET', run, 'e', '')
  end
  pull('tasks', queue, entry)
end

-- fetch reads what is next for a worker that asks for it with something else. at is where the number of queues stands in ARGV, then
-- kind, queue, and how many entries at most. Each task is kind, queue, entry, its fields, and for a workflow what begin returns, or nothing if enough is handed out: it is begun by a call of its own then.
local function fetch(at, consumer)
  local out = {}
  for i = 0, tonumber(ARGV[at]) - 1 do
    local kind, queue = ARGV[at + 1 + 3 * i], ARGV[at + 2 + 3 * i]
    local got = redis.pcall('XREADGROUP', 'GROUP', GROUP, consumer, 'COUNT', ARGV[at + 3 + 3 * i], 'STREAMS', B .. kind .. ':' .. queue, '>')
    if got and got[1] then -- else nothing is there, or no group
      for _, m in ipairs(got[1][2]) do
        if kind == 'activities' or handed >= LARGE then
          out[#out + 1] = {kind, queue, m[1], m[2]}
        else
          -- What cannot be begun, since somebody put another key in the place of one of its own, must not fail what the script has written: a call of its own says what is wrong.
          local ok, task = pcall(begin, queue, m[1], m[2][2])
          if not ok then out[#out + 1] = {kind, queue, m[1], m[2]}
          elseif task then out[#out + 1] = {kind, queue, m[1], m[2], task} end
        end
      end
    end
  end
  return out
end
