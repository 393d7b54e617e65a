/** The practice's backend: it keeps the API key, knows who asks, and decides who may join which visit. */
import { randomBytes, timingSafeEqual } from "node:crypto";
import { fileURLToPath } from "node:url";
import express, { type NextFunction, type Request, type RequestHandler, type Response } from "express";
import { Stoa, StoaApiError } from "stoa/server";
import { NotPossible, type Visit, Visits } from "./visits.js";
import { receive, register } from "./webhooks.js";

const { STOA_URL = "http://127.0.0.1:7000", STOA_API_KEY, PORT = "8080" } = process.env;
if (!STOA_API_KEY) throw new Error("Set STOA_API_KEY to the key that `stoa dev` prints.");
const clinicianCode = process.env.CLINICIAN_CODE ?? randomBytes(12).toString("hex");

const stoa = new Stoa({ url: STOA_URL, apiKey: STOA_API_KEY });
const visits = new Visits(stoa);
const webhookSecret = await register(stoa, `http://127.0.0.1:${PORT}/webhooks`);

const app = express();
app.post("/webhooks", express.raw({ type: "application/json" }), receive(stoa, visits, webhookSecret));
app.use(express.json());

// The patient's page. It knows the id of its own visit, and no other.
app.post("/api/visits", (request, response) => {
  const { name } = request.body as { name?: unknown };
  if (typeof name !== "string" || name === "") throw new NotPossible("name: must be a text.");
  response.status(201).json(shown(visits.add(name)));
});
app.get("/api/visits/:id", (request, response) => void response.json(shown(visits.find(request.params.id))));
app.post("/api/visits/:id/join", async (request, response) => {
  response.json(await visits.joinAsPatient(visits.find(request.params.id)));
});

// The clinician's page. Your own sign-in takes the place of this code.
const requireClinician: RequestHandler = (request, response, next) => {
  const given = Buffer.from((request.headers.authorization ?? "").replace(/^Bearer /, ""));
  const wanted = Buffer.from(clinicianCode);
  if (given.length === wanted.length && timingSafeEqual(given, wanted)) return next();
  response.status(401).json({ message: "Open the clinician's address that the server printed." });
};
const actions: Record<string, (visit: Visit) => Promise<unknown>> = {
  open: (visit) => visits.open(visit),
  join: (visit) => visits.joinAsClinician(visit),
  record: (visit) => visits.record(visit),
  "stop-recording": (visit) => visits.stopRecording(visit),
  close: (visit) => visits.close(visit),
  replay: async (visit) => ({ url: await visits.replay(visit) }),
  export: async (visit) => ({ url: await visits.export(visit) }),
  erase: (visit) => visits.erase(visit),
};
app.use("/api/clinic", requireClinician);
app.get("/api/clinic/visits", (_request, response) => void response.json(visits.all.map(shown)));
for (const [name, act] of Object.entries(actions)) {
  app.post(`/api/clinic/visits/:id/${name}`, async (request: Request<{ id: string }>, response) => {
    response.json((await act(visits.find(request.params.id))) ?? {});
  });
}

const pages = fileURLToPath(new URL("../client", import.meta.url));
app.use(express.static(pages));
app.get("/clinician", (_request, response) => response.sendFile("index.html", { root: pages }));

app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
  if (error instanceof NotPossible) return void response.status(409).json({ message: error.message });
  console.error(error);
  const status = error instanceof StoaApiError && error.status === 429 ? 429 : 500;
  response.status(status).json({ message: "That did not work. Please try again." });
});

app.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`Patients: http://localhost:${PORT}`);
  console.log(`Clinician: http://localhost:${PORT}/clinician#${clinicianCode}`);
});

/** What the pages may know of a visit. */
function shown({ id, patientName, status, recordingId, replayableId, verdicts }: Visit) {
  return { id, patientName, status, isRecording: recordingId !== null, hasReplay: replayableId !== null, verdicts };
}
