-- Records of reprieve at commit 5fbf2d51 (November 2026), schema 2: one pod has preempted another one.
BEGIN TRANSACTION;
CREATE TABLE involved (
	cluster TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	name TEXT NOT NULL, 
	record BIGINT NOT NULL, 
	CONSTRAINT involved_key PRIMARY KEY (cluster, kind, namespace, name, record), 
	FOREIGN KEY(cluster, record) REFERENCES record (cluster, id) ON DELETE CASCADE
);
INSERT INTO "involved" VALUES('','Pod','limited-0','high-0',3573272211816500);
INSERT INTO "involved" VALUES('','Pod','limited-0','low-0',3573272211816500);
INSERT INTO "involved" VALUES('','Node','','node-0',3573272211816500);
CREATE TABLE record (
	cluster TEXT NOT NULL, 
	id BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	time DOUBLE NOT NULL, 
	preempts BOOLEAN NOT NULL, 
	size INTEGER NOT NULL, 
	body BLOB NOT NULL, 
	CONSTRAINT record_key PRIMARY KEY (cluster, id)
);
INSERT INTO "record" VALUES('',3573272211816500,1795932028736657,1.79593202775572109222e+09,1,2574,CAST('{"id":3573272211816500,"time":"2026-11-29T06:00:27.755721Z","entity":{"kind":"Pod","namespace":"limited-0","name":"high-0","uid":"6690ecdd-9299-41cb-a547-c473074cb3a5","priority":1000},"result":"Preempting","message":"0/16 nodes are available: 1 Insufficient cpu, 15 node(s) didn''t match Pod''s node affinity/selector.","attempt":1,"timings":{"attemptSeconds":0.03317441699982737,"waitingSeconds":0.07363390922546387},"apiVersion":"reprieve.dev/v1alpha1","kind":"DecisionRecord","profile":"reprieve-scheduler","nodes":16,"reasons":[{"reason":"node(s) didn''t match Pod''s node affinity/selector","nodes":15},{"reason":"Insufficient cpu","nodes":1}],"rejectedBy":["NodeAffinity","NodeResourcesFit"],"pods":[{"message":"0/16 nodes are available: 1 Insufficient cpu, 15 node(s) didn''t match Pod''s node affinity/selector.","reason":"Unschedulable","pods":1,"names":["limited-0/high-0"]}],"preemption":{"domain":"node-0","potentialVictims":1,"evicted":[{"unit":"limited-0/low-0","kind":"Pod","outcome":"Evicted","priority":0,"pods":1,"podNames":["limited-0/low-0"],"nodes":["node-0"],"uid":"737944f6-0171-4136-951d-ba309a708b34","podUids":["737944f6-0171-4136-951d-ba309a708b34"],"owner":"pod limited-0/low-0","priorityClass":"low","nodesTotal":1,"runningSeconds":0.7557213306427002,"why":{"pod":"limited-0/high-0","node":"node-0","plugin":"NodeResourcesFit","text":"Insufficient cpu","resource":"cpu","short":"8","missing":{"cpu":"8"}}}],"reprieved":[],"reprievedTotal":0,"cost":{"units":1,"pods":1,"highestPriority":0,"runningSecondsLost":0.7557213306427002,"lostGpuHours":0.0,"lostCpuHours":0.004,"byCriterion":{"pdbViolations":0,"highestPriority":0,"gangsBroken":0,"prioritySum":2147483648,"pods":1,"startTime":-1795932027}},"comparison":{"candidates":1,"chosen":{"domain":"node-0","prioritySum":2147483648,"pods":1,"earliestStart":"2026-11-29T06:00:27.000000Z","others":{"gangsBroken":0}}},"nominations":[{"pod":"limited-0/high-0","node":"node-0"}],"nominationsTotal":1,"state":"Done","seconds":0.23690729099962482,"heldUntil":"2026-11-29T06:00:28.722514Z","released":[{"time":"2026-11-29T06:00:28.735166Z","reason":"NotUsed","message":"it was held for 1 s and not used","nodes":["node-0"],"nodesTotal":1,"pods":1}]}}' AS BLOB));
CREATE TABLE record_schema (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO "record_schema" VALUES('2');
CREATE INDEX record_age ON record (cluster, preempts, time);
CREATE INDEX involved_record ON involved (cluster, record);
COMMIT;
