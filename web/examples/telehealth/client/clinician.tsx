import { useCallback, useEffect, useState } from "react";
import { request, type Visit } from "./api.js";
import { Call } from "./call.js";

const POLL_MS = 1_000;

/** Who waits, the open call, and what is left of past visits. */
export function Clinician() {
  const [visits, setVisits] = useState<Visit[]>([]);
  const [openId, setOpenId] = useState<string>();
  const [notice, setNotice] = useState("");
  const load = useCallback(async () => setVisits(await request<Visit[]>("GET", "/api/clinic/visits")), []);
  useEffect(() => {
    const refresh = () => void load().catch((error: Error) => setNotice(error.message));
    refresh();
    const timer = setInterval(refresh, POLL_MS);
    return () => clearInterval(timer);
  }, [load]);

  const act = async ({ id }: Visit, action: string): Promise<{ url?: string }> => {
    const answer = await request<{ url?: string }>("POST", `/api/clinic/visits/${id}/${action}`);
    await load();
    return answer;
  };
  /** Tells of a failure on the page. */
  const on = (work: () => Promise<void>) => () => void work().catch((error: Error) => setNotice(error.message));

  const current = visits.find(({ id, status }) => id === openId && status === "OPEN");
  return (
    <>
      <h1>Visits</h1>
      <p role="status">{notice}</p>
      {current && (
        <>
          <Call path={`/api/clinic/visits/${current.id}/join`} onOver={() => setOpenId(undefined)} />
          <Button
            text={current.isRecording ? "Stop recording" : "Record"}
            onClick={on(async () => void (await act(current, current.isRecording ? "stop-recording" : "record")))}
          />
          <Button text="End the visit" onClick={on(async () => void (await act(current, "close")))} />
        </>
      )}
      {visits.map((visit) => (
        <article key={visit.id} aria-label={visit.patientName}>
          <p>
            {visit.patientName}: {STATUS_TEXTS[visit.status]}
          </p>
          {visit.verdicts.map(({ name, sentence }) => (
            <p key={name}>
              {name}: {sentence}
            </p>
          ))}
          {visit.status === "WAITING" && (
            <Button
              text="Let in"
              onClick={on(async () => {
                await act(visit, "open");
                setOpenId(visit.id);
              })}
            />
          )}
          {visit.status === "OPEN" && visit.id !== openId && <Button text="Join" onClick={() => setOpenId(visit.id)} />}
          {visit.hasReplay && (
            <Button
              text="Replay"
              onClick={on(async () => {
                // Browsers block a window that opens later than in the click itself.
                const replay = window.open();
                try {
                  const { url } = await act(visit, "replay");
                  if (replay && url) replay.location.href = url;
                } catch (error) {
                  replay?.close();
                  throw error;
                }
              })}
            />
          )}
          {visit.status === "CLOSED" && (
            <>
              <Button
                text="Export the patient's data"
                onClick={on(async () => {
                  const { url } = await act(visit, "export");
                  if (url) location.assign(url);
                })}
              />
              <Button
                text="Erase the patient's data"
                onClick={on(async () => {
                  await act(visit, "erase");
                  setNotice(`The data of ${visit.patientName} was erased.`);
                })}
              />
            </>
          )}
        </article>
      ))}
    </>
  );
}

const STATUS_TEXTS: Record<Visit["status"], string> = { WAITING: "waiting", OPEN: "in the call", CLOSED: "over" };

function Button({ text, onClick }: { text: string; onClick: () => void }) {
  return (
    <button type="button" onClick={onClick}>
      {text}
    </button>
  );
}
