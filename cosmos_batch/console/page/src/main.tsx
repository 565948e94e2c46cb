import { createRoot } from "react-dom/client";
import { App, ExportedApp } from "./app";
import { exported } from "./source";
import "./style.css";

const root = document.getElementById("app");
if (root) {
  createRoot(root).render(window.cosmosBatch ? <ExportedApp source={exported(window.cosmosBatch)} /> : <App />);
}
