import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Clinician } from "./clinician.js";
import { Patient } from "./patient.js";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no element with the id root");
createRoot(root).render(<StrictMode>{location.pathname === "/clinician" ? <Clinician /> : <Patient />}</StrictMode>);
