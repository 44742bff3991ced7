-- The account of each node on a day, as its events last said; empty where they do not.

SELECT toDate(hour) AS day, node, argMaxIf(toString(h.account), hour, h.account != '') AS account
FROM node_hours AS h FINAL
GROUP BY day, node
