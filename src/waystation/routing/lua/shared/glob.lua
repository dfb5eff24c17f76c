--- Whether a text fits a pattern in which * stands for anything and ? for one character.
local function glob(pattern, text)
  if pattern == text then return true end
  if not string.find(pattern, '[*?]') then return false end
  local p, t, star, mark = 1, 1, nil, 1
  -- One star is remembered at a time, so the cost is at most the product of the two lengths.
  while t <= #text do
    local c = string.sub(pattern, p, p)
    if c == '*' then
      star, mark, p = p, t, p + 1
    elseif c == '?' or (c ~= '' and c == string.sub(text, t, t)) then
      p, t = p + 1, t + 1
    elseif star then
      p, mark = star + 1, mark + 1
      t = mark
    else
      return false
    end
  end
  return string.find(pattern, '^%**$', p) ~= nil
end
