/** @jsxImportSource react */
import { useRef } from "react";
import { useStyle } from "../react/conference/use-style.ts";

/** Said in the page, where whoever wrote the tag will see it. */
export function Missing({ tag, names }: { tag: string; names: string }) {
  const element = useRef<HTMLElement>(null);
  useStyle(element);
  return (
    <section ref={element} className="stoa-conference" part="conference" aria-label="Call">
      <div className="stoa-message">
        <p role="status">
          {`<${tag}>`} waits for {names}. Your backend mints them.
        </p>
      </div>
    </section>
  );
}
