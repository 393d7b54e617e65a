import { type RefObject, useEffect } from "react";
import { CONFERENCE_STYLE } from "./style.ts";

const STYLED = Symbol.for("stoa.conference.style");

/**
 * Adds the conference's style sheet once to the document or shadow root that contains the element. A constructed sheet
 * is not an inline style, so even the strictest Content-Security-Policy allows it.
 */
export function useStyle(element: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const root = element.current?.getRootNode();
    if (!(root instanceof Document || root instanceof ShadowRoot)) return;
    const marked = root as (Document | ShadowRoot) & { [STYLED]?: true };
    if (marked[STYLED]) return;
    marked[STYLED] = true;
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(CONFERENCE_STYLE);
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  }, [element]);
}
