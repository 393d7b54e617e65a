import { type FormEvent, useEffect, useRef, useState } from "react";
import { request, type Visit } from "./api.js";
import { Call } from "./call.js";

const POLL_MS = 1_000;

/** The waiting room, the call, and a word at the end. */
export function Patient() {
  const [visit, setVisit] = useState<Visit>();
  const [hasLeft, setHasLeft] = useState(false);
  const id = visit?.id;
  const isOver = hasLeft || visit?.status === "CLOSED";
  useEffect(() => {
    if (id === undefined || isOver) return;
    const timer = setInterval(() => void request<Visit>("GET", `/api/visits/${id}`).then(setVisit, () => {}), POLL_MS);
    return () => clearInterval(timer);
  }, [id, isOver]);
  const enter = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const name = new FormData(event.currentTarget).get("name");
    void request<Visit>("POST", "/api/visits", { name }).then(setVisit);
  };
  if (!visit) {
    return (
      <form onSubmit={enter}>
        <h1>Your visit</h1>
        <input name="name" placeholder="Your name" required maxLength={128} />
        <button type="submit">Enter the waiting room</button>
      </form>
    );
  }
  if (isOver) return <h1>Thank you for your visit.</h1>;
  if (visit.status === "OPEN") return <Call path={`/api/visits/${visit.id}/join`} onOver={() => setHasLeft(true)} />;
  return (
    <>
      <h1>Waiting room</h1>
      <p>Dr. Grey will let you in. This is how you will be seen:</p>
      <Preview />
    </>
  );
}

/** The own camera, which nobody else sees yet. */
function Preview() {
  const video = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    const opened = navigator.mediaDevices.getUserMedia({ video: true });
    opened.then(
      (stream) => {
        if (video.current) video.current.srcObject = stream;
      },
      () => {},
    );
    return () => {
      opened.then(
        (stream) => {
          for (const track of stream.getTracks()) track.stop();
        },
        () => {},
      );
    };
  }, []);
  return <video className="preview" ref={video} autoPlay muted playsInline />;
}
